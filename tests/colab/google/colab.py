"""A stand-in: code that asks whether it runs in Colab finds that it does."""
