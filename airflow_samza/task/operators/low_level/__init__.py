"""Low-level tasks as operators: the user's code gets every message with its place, and sends what it likes."""
