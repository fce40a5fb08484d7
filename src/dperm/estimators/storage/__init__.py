"""Saving and loading models: JSON files, ONNX graphs, pickles."""
