"""The PTX front end: from PTX text to a `Program`."""
