"""Reports as text: `diagnostic` lays findings out, `terminal` prints them."""
