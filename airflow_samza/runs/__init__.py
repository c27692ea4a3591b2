"""Records of a run and what is read of them: plan, intents, manifests, commits, heartbeats, generations. No pyspark."""
