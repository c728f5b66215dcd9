"""The web page of a cluster, replayed or live, and the JSON that it is drawn from (docs/guides/look-at-a-run.md)."""
