"""What running queries have done, batch by batch: numbers, and what a person is told of them."""
