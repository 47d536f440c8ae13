"""Locations, formats, integrity and writers: bytes in, Arrow batches out."""
