"""Forward and reverse mode, and the functions made of them."""
