"""Answers about gradients: how they flow, where they are lost, whether they are right."""
