"""Our broker, beside librdkafka's mock cluster."""
