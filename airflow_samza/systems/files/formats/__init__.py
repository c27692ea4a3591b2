"""File formats: how bytes become Arrow batches, and back."""
