"""OpenAI's API of speech: texts of audio, audio of texts, and images, from functions of bytes."""
