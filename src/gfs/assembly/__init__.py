"""The one place where parts are wired together: parameters in, a ready scheduler out."""
