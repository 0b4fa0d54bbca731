"""OpenAI APIs for transcription, speech and images, based on functions of bytes."""
