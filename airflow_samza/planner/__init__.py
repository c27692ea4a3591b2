"""Planning: from an application to an ExecutionPlan, by join groups, partition counts, stages. Pure: no I/O."""
