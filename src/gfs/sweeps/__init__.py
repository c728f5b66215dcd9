"""Many runs over a grid or a sample of parameters (`gfs sweep`)."""
