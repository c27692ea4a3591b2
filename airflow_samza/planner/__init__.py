"""From an application to an ExecutionPlan: join groups, partition counts, stages. Pure: no I/O."""
