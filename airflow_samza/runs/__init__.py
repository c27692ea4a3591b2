"""What a run leaves on record: plan, intents, manifests, commits, heartbeats, generations. No pyspark."""
