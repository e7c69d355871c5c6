from dpicl.accounting import dp_event as dp_event
