"""What Hypothesis draws: transfers and launches that are valid, and calls that must be refused."""
