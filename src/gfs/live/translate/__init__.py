"""Words of Kubernetes in words of GFS: pure functions on what the API server says, one file an idea."""
