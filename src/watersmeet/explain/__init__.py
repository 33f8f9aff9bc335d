"""What a person is told of a query: its plan, what it should cost, what a sample showed."""
