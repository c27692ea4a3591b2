"""A run's own topics on Kafka: messages lie with the brokers, and commits under the root say which of them count."""
