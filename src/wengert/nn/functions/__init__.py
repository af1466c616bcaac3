"""The functions behind the layers, by kind."""
