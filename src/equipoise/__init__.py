"""Consumer groups you can see, test and trust."""
