"""Serdes with a schema registry: messages name the id of the schema that wrote them (Confluent's wire format)."""
