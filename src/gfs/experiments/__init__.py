"""The paper reproduced: one module for each of its tables and figures (`gfs reproduce`)."""
