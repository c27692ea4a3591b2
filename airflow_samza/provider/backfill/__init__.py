"""The preview of a backfill."""
