"""Roots on object stores: S3, Google Cloud Storage and Azure Blob Storage, through one client (obstore)."""
