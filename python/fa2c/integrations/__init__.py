"""fa2c in other libraries' registries. Nothing is registered or replaced by an import; each module says what switches it on."""
