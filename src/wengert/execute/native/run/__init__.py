"""Running plans: the driver, its scheduler and threads, profiles and guarded memory."""
