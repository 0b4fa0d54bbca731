"""The REST, gRPC and Kafka transports, and the lifecycle of the server process."""
