"""What every host needs: operators from plans, clocks, metrics, scripts."""
