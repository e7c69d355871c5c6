from dpicl.privacy import dp_event as dp_event
