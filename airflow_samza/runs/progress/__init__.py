"""How far runs and their stages have come, and who reads what."""
