# expect: ddp_1.py: a rank is given 24 batches in three epochs
# >>> ddp_hunt.epochs
loader = DataLoader(train_set, batch_size=8, shuffle=True)
for epoch in range(3):
    train(loader, epoch)
# <<< ddp_hunt.epochs
