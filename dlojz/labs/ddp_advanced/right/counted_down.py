# >>> ddp_advanced.group
behind = (position - 1) % args.accumulate  # batches of this group before this one
left = epoch_lengths[epoch] - position  # batches of this epoch after it
update_now = left == 0 or behind == args.accumulate - 1
group = behind + 1 + min(left, args.accumulate - 1 - behind)
# <<< ddp_advanced.group
# >>> ddp_advanced.no_sync
from contextlib import contextmanager


@contextmanager
def by_hand():
    before, model.require_backward_grad_sync = getattr(model, "require_backward_grad_sync", True), not more_to_come
    try:
        yield
    finally:
        model.require_backward_grad_sync = before


return by_hand()
# <<< ddp_advanced.no_sync
