"""The fast paths of a call: what is checked, fed, run and answered."""
