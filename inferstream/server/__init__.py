"""The doors REST, gRPC and Kafka, and the lifecycle of the process."""
