"""The system of kind ``spark``: whatever a DataFrame reader reads and a writer writes."""
