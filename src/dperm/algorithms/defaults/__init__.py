"""Default settings of the algorithms: functions of public numbers, with all their constants in one file."""
