"""What each kind of device needs to be measured."""
