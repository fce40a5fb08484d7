from hypothesis import settings

# The machine that runs the tests may be busy; how long an example takes says nothing about accounting.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
