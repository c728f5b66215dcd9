"""Many runs: jobs that any process can do, kept in a folder as they are done."""
