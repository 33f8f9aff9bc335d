"""`watersmeet serve`: queries that go on, with HTTP around them. Nothing else imports a server library."""
