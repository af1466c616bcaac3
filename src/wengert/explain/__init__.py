"""Answers about graphs: pictures, and checks of gradients."""
