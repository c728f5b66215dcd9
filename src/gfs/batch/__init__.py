"""Many runs: a job gives a result, on any process; results are kept in a folder as they come."""
