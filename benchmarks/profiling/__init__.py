"""What benchmarks.profiles measures: workloads that go on, who looks at them, and what is made of what was seen."""
