"""One message of several copies."""
