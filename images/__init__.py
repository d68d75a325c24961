"""What a snapshot is and where it lives: model, manifest, file trees, the store."""
