"""Reads of BAM and CRAM files: where they are, which of them count, what they show."""
