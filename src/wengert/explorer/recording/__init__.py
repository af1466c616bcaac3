"""Recording a run, and putting in order what was recorded."""
