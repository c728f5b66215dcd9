"""The paper made anew: one module for each of its tables and figures (`gfs reproduce`)."""
