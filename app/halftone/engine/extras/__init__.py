"""Components beside a loaded model or in the place of its own: ControlNets, IP-Adapters, transformers of one file, VAEs."""
